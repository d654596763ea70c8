# The solver as a container, for the controller "fargate". Built by `cdk deploy` from the repository.
FROM public.ecr.aws/docker/library/python:3.14-slim
COPY infra/function_requirements.txt /app/
RUN pip install --no-cache-dir --only-binary :all: --requirement /app/function_requirements.txt
COPY solver_lambda /app/solver_lambda
WORKDIR /app
USER 10001
ENTRYPOINT ["python", "-m", "solver_lambda"]
