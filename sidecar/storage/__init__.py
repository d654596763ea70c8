"""Where documents lie: a folder, or buckets in S3."""
