"""The page that hands a run over: what a new operator needs without asking the one before (C-035)."""
