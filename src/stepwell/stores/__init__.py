"""Where bytes are kept, one module per store, and the policies that choose what leaves."""
