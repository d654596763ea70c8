"""Figure 8.5 and Table 8.6: ten hours of two applications that share a machine."""
