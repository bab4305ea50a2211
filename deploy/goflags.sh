#!/usr/bin/env bash
# Prints the flags of everything that is built of this tree, as GOFLAGS has them.
#
# grpcnotrace leaves out gRPC's debug pages. Their templates keep the linker from removing unused methods, which costs
# 15 MB. Libraries that do little work for a request are built without inlining, which saves 1 MB: clients of the
# clouds, of etcd and of NATS, protobuf, the messages of Kafka, and the exporters of OpenTelemetry.
flags=(-trimpath -buildvcs=false -tags=grpcnotrace)
for packages in github.com/Azure github.com/AzureAD github.com/aws/aws-sdk-go-v2/config github.com/aws/aws-sdk-go-v2/service cloud.google.com \
  github.com/nats-io github.com/twmb/franz-go/pkg/kmsg go.etcd.io go.opentelemetry.io/otel/exporters google.golang.org; do
  flags+=("-gcflags=$packages/...=-l")
done
echo "${flags[*]}"
