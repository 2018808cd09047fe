from hypothesis import settings

# The same examples on every run, however slow the machine: a red test is then the fault of the change at hand.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
