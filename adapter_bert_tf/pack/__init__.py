"""Task packs: what tuning a task yields."""
