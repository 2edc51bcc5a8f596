"""The inbox: everything that needs a person, ranked, with a preview of the item that is looked at."""
