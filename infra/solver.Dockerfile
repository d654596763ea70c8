# The solver as a container: for the controller "fargate", for which `cdk deploy` builds it, and, with
# the arguments `serve --host 0.0.0.0`, wherever a container that answers HTTP runs.
FROM public.ecr.aws/docker/library/python:3.14-slim
COPY infra/function_requirements.txt /app/
RUN pip install --no-cache-dir --only-binary :all: --requirement /app/function_requirements.txt
COPY solver_lambda /app/solver_lambda
WORKDIR /app
USER 10001
ENTRYPOINT ["python", "-m", "solver_lambda"]
