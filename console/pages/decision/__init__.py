"""The decision page: one call, shown in full, bound to one revision; what follows from each answer; one decision."""
