#!/usr/bin/env bash
# Installs the servers of `make scale` into FOLDER, unless they are there: Kafka by Maven, chdb (the engine of
# ClickHouse) by pip, NATS by apt. With "chdb" only that one.
#
#   scale/tools.sh FOLDER [chdb]
set -euo pipefail

# debian installs packages of Debian, as root or by sudo.
debian() {
  local as=()
  [ "$(id -u)" = 0 ] || as=(sudo)
  "${as[@]}" apt-get install -y --no-install-recommends "$@"
}

mkdir -p "$1"
cd "$1"
if [ ! -x chdb/bin/python ] || ! chdb/bin/python -c 'import chdb' 2>/dev/null; then
  python3 -m venv chdb
  chdb/bin/pip install -q chdb==4.4.0
fi
[ "${2:-}" = chdb ] && exit
command -v nats-server >/dev/null || [ -x /usr/sbin/nats-server ] || debian nats-server
command -v mvn >/dev/null || debian maven default-jre-headless
if [ ! -d kafka/lib ]; then
  mkdir -p kafka
  cat >kafka/pom.xml <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>isogloss</groupId><artifactId>scale</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>4.1.1</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
POM
  (cd kafka && mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib)
fi
