"""Finds which memory of the past tells best what comes: several are tried, and judged by what
came."""
