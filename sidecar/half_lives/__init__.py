"""Finds which half-life of the past tells best what comes: several are tried, and judged by what
came."""
