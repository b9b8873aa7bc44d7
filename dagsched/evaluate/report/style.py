"""The look of the report: one style sheet for screen, phone, print, light and dark."""

from __future__ import annotations

CSS = """
:root{color-scheme:light dark;--bg:#f5f6f8;--card:#fff;--ink:#1a1f27;--muted:#5a6472;--line:#e1e5ea;--soft:#f1f3f6;
--best:#0b7a4b;--best-bg:#e4f5ec;--accent:#2f62ad;--bad:#b4431f;--win:47,98,173;--loss:201,98,33;--shadow:0 1px 2px
rgba(20,28,40,.06),0 4px 14px rgba(20,28,40,.05)}
@media (prefers-color-scheme:dark){:root{--bg:#11151b;--card:#191f27;--ink:#e8ebf0;--muted:#a0aab8;--line:#2c3541;
--soft:#202732;--best:#5fd19c;--best-bg:#17352a;--accent:#84b0f2;--bad:#f09a78;--win:92,142,222;--loss:222,128,66;
--shadow:none}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,sans-serif}
main,header,footer{max-width:1180px;margin:0 auto;padding:0 20px}
header{padding-top:40px}
h1{font-size:1.05rem;font-weight:600;color:var(--muted);margin:0 0 10px;letter-spacing:.01em;overflow-wrap:anywhere}
.verdict{font-size:clamp(1.22rem,1rem + 1.2vw,1.7rem);line-height:1.3;font-weight:650;letter-spacing:-.012em;margin:0
0 18px;max-width:54rem;overflow-wrap:anywhere;text-wrap:pretty}
.more{margin:-8px 0 18px;max-width:50rem;color:var(--muted);font-size:1.02rem;overflow-wrap:anywhere}
.chips{display:flex;flex-wrap:wrap;gap:8px;margin:0 0 8px;padding:0;list-style:none}
.chips li{background:var(--card);border:1px solid var(--line);border-radius:999px;padding:3px 12px;font-size:.86rem;
color:var(--muted)}
.alert{border-left:4px solid var(--bad);background:var(--card);padding:10px 16px;border-radius:6px;margin:16px 0}
h2{font-size:1.22rem;line-height:1.3;margin:44px 0 4px;letter-spacing:-.008em}
h3{font-size:1rem;margin:0 0 8px;font-weight:650}
.lead{color:var(--muted);margin:0 0 14px;max-width:48rem;font-size:.94rem}
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:18px 20px;box-shadow:var(--shadow);
min-width:0}
.grid{display:grid;gap:18px;grid-template-columns:repeat(auto-fit,minmax(min(100%,500px),1fr));align-items:start}
.scroll{overflow-x:auto;-webkit-overflow-scrolling:touch;max-width:100%}
table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:6px 10px;text-align:right;border-bottom:1px solid var(--line);vertical-align:baseline;white-space:nowrap}
th{font-weight:600;color:var(--muted);font-size:.8rem}
tbody tr:last-child td,tbody tr:last-child th{border-bottom:0}
th:first-child,td:first-child{text-align:left;padding-left:0}
td:last-child,th:last-child{padding-right:2px}
tbody th{color:var(--ink);font-size:.9rem;font-weight:500}
table th:first-child{position:sticky;left:0;background:var(--card);z-index:1}
.name{white-space:normal;overflow-wrap:anywhere;min-width:7.5rem;max-width:19rem}
.wide .name{min-width:11rem}
.wide th,.wide td{padding:5px 6px;font-size:.82rem}
.wide thead th{font-size:.76rem;white-space:normal;overflow-wrap:break-word;vertical-align:bottom}
.text{white-space:normal;text-align:left;overflow-wrap:anywhere;min-width:9rem}
tr.best td,tr.best th{color:var(--best);font-weight:650}
td.best{color:var(--best);font-weight:650}
td.best::before{content:"\\2713\\00a0"}
.tag{display:inline-block;font-size:.72rem;font-weight:600;border-radius:999px;padding:1px 8px;margin-left:6px;
white-space:nowrap;background:var(--soft);color:var(--muted);vertical-align:1px}
.tag.best{background:var(--best-bg);color:var(--best)}
.ci{color:var(--muted);font-size:.82rem;font-weight:400}
.head thead th:last-child{white-space:normal;overflow-wrap:anywhere;min-width:10rem}
.none{color:var(--muted)}
details{margin-top:10px}
summary{cursor:pointer;color:var(--accent);font-size:.92rem;padding:6px 0;font-weight:550}
summary:focus-visible{outline:2px solid var(--accent);outline-offset:2px;border-radius:4px}
.bars{display:grid;gap:2px}
.bar{display:grid;grid-template-columns:minmax(7rem,15rem) 1fr minmax(10.5rem,auto);gap:14px;align-items:center;
font-size:.9rem;padding:4px 0}
.bar .who{overflow-wrap:anywhere;line-height:1.3}
.bar .num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.track{position:relative;height:20px;background:var(--soft);border-radius:5px;overflow:hidden}
.track i{position:absolute;display:block}
.zero{top:0;bottom:0;width:2px;margin-left:-1px;background:var(--muted);opacity:.65}
.fill{top:5px;bottom:5px;background:var(--accent);opacity:.42;border-radius:2px}
.whisk{top:9px;height:2px;background:var(--ink)}
.cap{top:5px;bottom:5px;width:2px;margin-left:-1px;background:var(--ink)}
.dot{top:6px;width:8px;height:8px;margin-left:-4px;border-radius:50%;background:var(--ink)}
.isbest{color:var(--best);font-weight:650}
.isbest .dot{background:var(--best)}
svg{display:block;width:100%;height:auto}
svg text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,Arial,sans-serif;fill:var(--muted)}
.axis{stroke:var(--muted);stroke-width:1}
.rule{stroke:var(--line);stroke-width:1}
.curve{fill:none;stroke-width:2.4;stroke-linejoin:round}
.curve.other{stroke:var(--muted);opacity:.45;stroke-width:1.3}
.end{stroke:var(--ink);stroke-width:1.2;stroke-dasharray:3 3}
.err{stroke:var(--ink);stroke-width:1.4}
.trend{fill:none;stroke:var(--accent);stroke-width:2.4;stroke-linejoin:round}
.point{fill:var(--accent);stroke:var(--card);stroke-width:1.5}
.point.own{stroke:var(--ink)}
.level{stroke:var(--muted);stroke-width:1.6}
.level.rule{stroke:var(--bad);stroke-width:1.6;stroke-dasharray:6 4}
.box{fill:var(--accent);opacity:.42}
.middle{stroke:var(--ink);stroke-width:2.4}
.far{fill:var(--ink)}
.stack .card+.card{margin-top:18px}
.blocks{stroke:var(--card);stroke-width:.5}
.blocks.fine{stroke-width:.15}
.legend+.lead{margin:10px 0 0}
.chart{min-width:760px}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;list-style:none;margin:12px 0 0;padding:0;font-size:.86rem}
.legend li{display:flex;align-items:center;gap:7px;min-width:0;overflow-wrap:anywhere}
.legend b{flex:none;width:14px;height:14px;border-radius:3px}
.legend b.line{height:4px;border-radius:2px}
.gantt+.gantt{margin-top:18px}
.cell{text-align:center;border:1px solid var(--card);font-size:.8rem;padding:5px 7px}
.matrix th{vertical-align:middle}
.matrix thead th{text-align:center}
.matrix thead th:first-child{text-align:left}
dl{display:grid;grid-template-columns:minmax(8rem,13rem) minmax(0,1fr);gap:7px 20px;margin:0;font-size:.9rem}
dt{color:var(--muted)}
dd{margin:0;overflow-wrap:anywhere;white-space:pre-line}
dd.mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.84rem}
footer{color:var(--muted);font-size:.84rem;padding-top:34px;padding-bottom:44px}
@media (max-width:640px){body{font-size:15px}main,header,footer{padding-left:14px;padding-right:14px}header{padding-top:
26px}.card{padding:14px}h2{margin-top:34px}.bar{grid-template-columns:minmax(0,1fr) auto;gap:3px 10px;padding:7px 0}
.bar .track{grid-column:1/-1;grid-row:2}dl{grid-template-columns:1fr;gap:1px}dd{margin-bottom:9px}
th,td{padding:5px 6px}.name{min-width:8rem;max-width:11rem}
.wide .name{min-width:8rem}.head table,.head tbody th{font-size:.82rem}.head .name{min-width:5rem;max-width:9rem}
.head thead th{font-size:.74rem}.head .ci{font-size:.76rem}
.head th,.head td{padding:5px 4px}.head .ci{display:block}.head h3 .ci,.head thead .ci{display:inline}
.head thead th:last-child{white-space:normal;overflow-wrap:anywhere;min-width:7rem}}
@media print{body{background:#fff}.card{box-shadow:none;break-inside:avoid}}
"""
