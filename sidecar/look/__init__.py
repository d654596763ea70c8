"""Makes curves of stock servers, from outside: nothing is installed on them, and nothing is set."""
