"""What any room of the sidecar may use."""
