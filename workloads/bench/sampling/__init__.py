"""What sampling costs the server: throughput, latency, processor time and instructions."""
