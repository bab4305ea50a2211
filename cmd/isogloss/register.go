package main

import (
	"errors"
	"log/slog"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/internal/discover"
)

func newRegister() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "register",
		Short: "Register an engine in etcd for as long as this command runs",
		Long: `Register an engine in etcd for as long as this command runs, for engines that
cannot do so themselves. The entry is kept by a lease: if this command dies, the
engine is gone from every gateway when the lease ends. While --check fails, the
engine is withdrawn. On SIGTERM or SIGINT it leaves at once.

ETCD_PASSWORD is the password of --username.`,
		Example: `  isogloss register --etcd http://127.0.0.1:2379 --model llama-3-70b \
    --protocol openai-chat --url http://10.0.0.5:8000/v1 --check http://10.0.0.5:8000/health`,
		Args: noArguments,
	}
	f := cmd.Flags()
	var o discover.RegisterOptions
	f.StringSliceVar(&o.Etcd.Endpoints, "etcd", nil, "addresses of etcd, such as http://127.0.0.1:2379")
	f.StringVar(&o.Etcd.Prefix, "prefix", "/isogloss/", "what keys in etcd begin with")
	f.StringVar(&o.Etcd.Username, "username", "", "account in etcd")
	f.StringVar(&o.Etcd.CA, "ca", "", "`FILE` with the certificates that are trusted")
	f.StringVar(&o.Etcd.Cert, "cert", "", "`FILE` with the certificate to show")
	f.StringVar(&o.Etcd.Key, "key", "", "`FILE` with its private key")
	f.StringVar(&o.Worker.ID, "id", "", "unique name of the worker; the URL's host, its port and the model by default")
	f.StringVar(&o.Worker.Model, "model", "", "the model, as clients call it")
	f.StringVar(&o.Worker.Name, "name", "", "the model, as the engine calls it, where that is another name")
	f.StringVar(&o.Worker.Protocol, "protocol", "openai-chat", "openai-chat, openai-responses, anthropic or gemini")
	f.StringVar(&o.Worker.URL, "url", "", "the engine's base URL, such as http://10.0.0.5:8000/v1")
	f.IntVar(&o.Worker.Capacity, "capacity", 0, "requests that it can work on at once; no limit by default")
	f.IntVar(&o.Worker.Weight, "weight", 1, "its share among the workers of the model")
	f.StringVar(&o.Worker.Engine, "engine", "", "the preset of its engine, for example ollama, where that does things in its own way")
	f.DurationVar(&o.TTL, "ttl", 10*time.Second, "how long it stays registered after this command has died")
	f.StringVar(&o.Check, "check", "", "URL that answers 2xx while the engine is well")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(o.Etcd.Endpoints) == 0 || o.Worker.Model == "" || o.Worker.URL == "" {
			return errors.New("--etcd, --model and --url are needed; 'isogloss register --help' has an example")
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

// workerID tells workers apart that nobody has named: by where they are and by what
// they serve.
func workerID(w discover.Worker) string {
	u, err := url.Parse(w.URL)
	if err != nil {
		return "" // whoever registers it says what is wrong with the URL
	}
	return u.Host + "/" + w.Model
}
