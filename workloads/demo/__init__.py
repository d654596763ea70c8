"""The demonstration: an equal split against SPREDS."""
