package main

import (
	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/internal/app/usagesetup"
)

func newConsume() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "consume",
		Short: "Store the usage events of a log",
		Long: `Read the usage events of usage.sink, a topic of Kafka or a stream of NATS
JetStream, until SIGTERM or SIGINT. Write the requests into usage.clickhouse and the
balances into the store, each event exactly once. Without usage.clickhouse the sums
by hour are written into the store instead, and there is no list of requests.

The command creates the topic or stream and the table of ClickHouse if they are not
there. Start it several times to share the partitions: each process takes an equal
part, and the others take those of a process that ends or hangs for ten seconds.

It uses the configuration file of the gateways. /live, /ready and /metrics are at
the address of --listen.`,
		Example: `  isogloss consume -c isogloss.yaml
  isogloss consume -c isogloss.yaml --listen 127.0.0.1:8083`,
		Args: noArguments,
	}
	o := options(cmd)
	listen := cmd.Flags().String("listen", "", "serve probes and metrics on `HOST:PORT` (default: none)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := disableCoreDumps(); err != nil {
			return err
		}
		cfg, err := o.Check()
		if err != nil {
			return err
		}
		return usagesetup.Consume(cmd.Context(), cfg, *listen, o.Log)
	}
	return cmd
}
