"""CP-SAT: optimal schedules of small batches, for comparison."""
