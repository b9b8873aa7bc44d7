"""Pictures with matplotlib: Gantt charts, workflow graphs, one look for all. Knows no policies and no comparisons."""
