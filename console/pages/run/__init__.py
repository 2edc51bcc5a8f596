"""The run page: its rows, its events, the time axis that draws them, and the event that is looked at."""
