#!/usr/bin/env bash
# Installs Keycloak into the folder $1, where it is not there yet. Needs Java and Maven.
set -euo pipefail
version=26.4.0
[[ -x $1/keycloak-$version/bin/kc.sh ]] && exit 0
mvn -q -B dependency:get -Dartifact="org.keycloak:keycloak-quarkus-dist:$version:zip" -Dtransitive=false
mvn -q -B dependency:copy -Dartifact="org.keycloak:keycloak-quarkus-dist:$version:zip" -DoutputDirectory="$1" -Dmdep.useBaseVersion=true
python3 -m zipfile -e "$1/keycloak-quarkus-dist-$version.zip" "$1"
chmod +x "$1/keycloak-$version"/bin/*.sh
rm "$1/keycloak-quarkus-dist-$version.zip"
