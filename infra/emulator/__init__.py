"""AWS on this machine, for `make deploy-local`, the demonstration and the tests."""
