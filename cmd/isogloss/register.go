package main

import (
	"errors"
	"log/slog"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/internal/targets/discover"
)

func newRegister() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "register",
		Short: "Register an engine in etcd while this command runs",
		Long: `Register an engine in etcd while this command runs. Use it for engines that cannot
register themselves. The entry has a lease: if this command dies, every gateway
removes the engine when the lease expires. While --check fails, the command
withdraws the entry. On SIGTERM or SIGINT it removes the entry at once.

The environment variable ETCD_PASSWORD holds the password for --username.`,
		Example: `  isogloss register --etcd http://127.0.0.1:2379 --model llama-3-70b \
    --protocol openai-chat --url http://10.0.0.5:8000/v1 --check http://10.0.0.5:8000/health`,
		Args: noArguments,
	}
	f := cmd.Flags()
	var o discover.RegisterOptions
	f.StringSliceVar(&o.Etcd.Endpoints, "etcd", nil, "addresses of etcd, such as http://127.0.0.1:2379")
	f.StringVar(&o.Etcd.Prefix, "prefix", "/isogloss/", "prefix of the keys in etcd")
	f.StringVar(&o.Etcd.Username, "username", "", "account in etcd")
	f.StringVar(&o.Etcd.CA, "ca", "", "`FILE` with the trusted certificates")
	f.StringVar(&o.Etcd.Cert, "cert", "", "`FILE` with the client certificate")
	f.StringVar(&o.Etcd.Key, "key", "", "`FILE` with its private key")
	f.StringVar(&o.Worker.ID, "id", "", "unique id of the worker; by default host, port and model")
	f.StringVar(&o.Worker.Model, "model", "", "model name for clients")
	f.StringVar(&o.Worker.Name, "name", "", "model name of the engine, if it differs")
	f.StringVar(&o.Worker.Protocol, "protocol", "openai-chat", "openai-chat, openai-responses, anthropic or gemini")
	f.StringVar(&o.Worker.URL, "url", "", "base URL of the engine, such as http://10.0.0.5:8000/v1")
	f.IntVar(&o.Worker.Capacity, "capacity", 0, "maximum number of open requests; no limit by default")
	f.IntVar(&o.Worker.Weight, "weight", 1, "weight among the workers of the model")
	f.StringVar(&o.Worker.Engine, "engine", "", "preset of the engine, such as ollama, which applies its quirks")
	f.StringVar(&o.Worker.Zone, "zone", "", "where the engine runs; gateways of the same zone prefer it")
	o.TTL = 10 * time.Second
	durationVar(cmd, &o.TTL, "ttl", "lease: how long the entry outlives this command")
	f.StringVar(&o.Check, "check", "", "health check URL; 2xx means healthy")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(o.Etcd.Endpoints) == 0 || o.Worker.Model == "" || o.Worker.URL == "" {
			return errors.New("--etcd, --model and --url are required; 'isogloss register --help' has an example")
		}
		if o.Worker.ID == "" {
			o.Worker.ID = workerID(o.Worker)
		}
		o.Etcd.SetPassword(os.Getenv("ETCD_PASSWORD"))
		o.Etcd.Logger = slog.New(slog.NewJSONHandler(os.Stderr, nil))
		return discover.Register(cmd.Context(), o)
	}
	return cmd
}

// workerID returns the default id of a worker: its address and its model.
func workerID(w discover.Worker) string {
	u, err := url.Parse(w.URL)
	if err != nil {
		return "" // Register reports the invalid URL
	}
	return u.Host + "/" + w.Model
}
