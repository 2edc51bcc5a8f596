"""Lists of everything that is many: typed filters in the URL, keyset pages, columns, saved views and export, for each alike."""
