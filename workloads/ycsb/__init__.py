"""YCSB as a client of our servers, with a binding of ours that fills on a miss."""
