"""Everything that schedules but the planner. ``registry.py`` makes policies from specs, ``runners.py`` drives them."""
