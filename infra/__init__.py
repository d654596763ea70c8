"""The cloud half: the CDK application, its local deployment, and what it costs."""
