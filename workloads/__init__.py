"""Load for the servers: traces, generators, the demonstration, benchmarks and experiments."""
