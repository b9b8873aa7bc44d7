"""How the package's loops are compiled: entries for Python, and what is only ever part of them.

numba optimises every function by itself, with all that it calls, and then once more inside each of its callers. What
Python never calls is therefore left as it is until it has become part of an entry: that takes a quarter off the time of
compilation and changes nothing of the entries. It rests on one name inside numba; where that is another one, functions
are optimised as often as numba does by itself.
"""

from __future__ import annotations

from typing import Any

from numba import njit
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering


@register_pass(mutates_CFG=True, analysis_only=False)
class LoweringForCallers(NativeLowering):  # type: ignore[misc]
    """Lowering to LLVM without its module-wide optimisation."""

    _name = "dagsched_lowering_for_callers"

    def run_pass(self, state: Any) -> bool:
        """See numba's ``NativeLowering``, which makes the library itself where there is none."""
        if state.library is None:
            state.library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
            state.library.enable_object_caching()
        state.library._optimize_final_module = lambda: None
        return bool(super().run_pass(state))


class PartCompiler(CompilerBase):  # type: ignore[misc]
    """numba's compiler for functions that only other compiled ones call."""

    def define_pipelines(self) -> list[Any]:
        """Numba's own passes, with the lowering exchanged."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(LoweringForCallers if one is NativeLowering else one, name) for one, name in passes.passes]
        passes.finalize()
        return [passes]


# Only entries get the wrapper that unpacks Python arguments: for 60 arrays it takes a second to compile; calling an
# `inner` function from Python crashes. Nothing here allocates, so reference counting of arrays is off (`_nrt`);
# together 64 s of compilation became 17 s.
entry = njit(cache=True, nogil=True, no_cfunc_wrapper=True, _nrt=False)
cold = njit(
    pipeline_class=PartCompiler, cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False
)
inner = njit(
    pipeline_class=PartCompiler,
    cache=True,
    nogil=True,
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
    _nrt=False,
    forceinline=True,
)
