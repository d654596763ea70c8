"""Where each part of SPREDS ends as servers, keys, samples and plans grow."""
