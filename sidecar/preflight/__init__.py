"""Whether SPREDS can work on this machine with these servers; changes nothing."""
