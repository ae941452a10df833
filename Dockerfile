# Gatehouse in a container: settings from the environment, secrets as files (NAME_FILE), data in /data or on Redis.
# Nothing but /data has to be written, so the root file system may be read-only. Dependabot updates the base image, digest and all.

FROM node:26.10.0-slim@sha256:ec7758ee051e457b468b32bde57b0879010b325bb9862718e9615225ce4aaae1 AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# Leaves out npm's own copy of Node, and the packages of tests. No install script runs (.npmrc).
RUN npm ci --omit=dev --omit=optional

FROM node:26.10.0-slim@sha256:ec7758ee051e457b468b32bde57b0879010b325bb9862718e9615225ce4aaae1
ENV NODE_ENV=production HOST=0.0.0.0 MANAGEMENT_HOST=0.0.0.0 DATA_DIR=/data NODE_COMPILE_CACHE=/var/cache/gatehouse
# As in src/with-node.sh.
ENV UV_THREADPOOL_SIZE=64
WORKDIR /app
RUN install -d -o node -g node -m 700 /data /var/cache/gatehouse
COPY --from=dependencies /app/node_modules node_modules
COPY package.json ./
COPY src src
COPY views views
# The guides of /docs.
COPY docs/*.md docs/
USER node
# Compiles what a start loads, with the flag of node.cjs. Node writes it to NODE_COMPILE_CACHE when this process ends, in a folder for this user.
RUN node --require ./src/node.cjs -e 'for (const file of ["gatehouse/start", "gatehouse/ready-text", "shared/observability/announce", "shared/storage/redis/store"]) import(`./src/${file}.ts`)'
VOLUME /data
EXPOSE 3000 3009
# Liveness, not readiness: a container that cannot reach Redis must not be restarted. Load balancers use /readyz.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.MANAGEMENT_PORT || 3009}/healthz`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# Node itself is process 1, so that SIGTERM reaches it: it then finishes the requests and refreshes under way.
STOPSIGNAL SIGTERM
CMD ["node", "src/server.ts"]
