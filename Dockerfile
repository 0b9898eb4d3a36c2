# docker build -t eigenprobe . && docker run --rm -v "$PWD/demo:/demo" eigenprobe
# runs the demo and leaves its report in the folder demo.
FROM python:3.12-slim
WORKDIR /eigenprobe
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir -c constraints.txt .
ENTRYPOINT ["eigenprobe"]
CMD ["demo", "--out", "/demo"]
