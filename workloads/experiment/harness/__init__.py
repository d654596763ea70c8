"""What experiments share: their command lines, tables, pictures, and what stands in for others."""
