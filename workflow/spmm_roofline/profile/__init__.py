"""Profile: Nsight Compute counters of the launches that the measure stage times, one call per case."""
