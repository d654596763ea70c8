"""Stores documents: in a folder, or in buckets in S3."""
