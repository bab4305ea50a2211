package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/app/running"
)

// Bounds of what a running gateway sends.
const (
	maxConfiguration = 16 << 20
	maxMetrics       = 16 << 20
	maxLog           = 1 << 20
)

// checkGateway compares the running gateway with this program and this file.
func (in *Installation) checkGateway(ctx context.Context) (list []Result) {
	if in.GatewayError != nil && in.File == "" {
		text, _ := split(in.GatewayError.Error())
		return one(Note, "name its file with -c", "%s", text)
	}
	if in.GatewayError != nil {
		text, remedy := split(in.GatewayError.Error())
		remedy, _, _ = strings.Cut(remedy, ", or use the running gateway") // with a flag of other commands
		return one(Failure, cmp.Or(remedy, "name the file of the gateway with -c"), "%s", text)
	}
	g := in.Gateway
	if g == nil {
		return one(Note, "", "no gateway of this user runs with this configuration on this machine")
	}
	text := fmt.Sprintf("version %s on %s, process %d", g.Version, g.Address, g.PID)
	if g.Version == in.Version {
		list = one(OK, "", "%s", text)
	} else {
		list = one(Warning, "restart the gateway: SIGHUP starts the installed program and drops no request", "%s; this program has version %s", text, in.Version)
	}
	c, err := in.running(ctx)
	if err != nil {
		return append(list, result(Skipped, "restart the gateway with this version", "it does not say its configuration: %v", err))
	}
	return append(list, in.compare(c)...)
}

// running returns the configuration of the gateway.
func (in *Installation) running(ctx context.Context) (c running.Configuration, err error) {
	text, err := in.Gateway.Read(ctx, running.ConfigurationPath, maxConfiguration)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	return c, err
}

// compare compares the gateway's configuration with this one.
func (in *Installation) compare(c running.Configuration) (list []Result) {
	if len(c.Refused) > 0 {
		list = append(list, result(Failure, "correct the file; the gateway loads it when it changes", "the gateway has refused the changed file and runs with the old one: %s", c.Refused[0]))
	}
	if len(c.Waiting) > 0 {
		list = append(list, result(Warning, "restart the gateway (SIGHUP drops no request)", "changed settings wait for a restart of the gateway: %s", some(c.Waiting)))
	}
	if in.Config == nil || in.Partial || in.Wrong != nil {
		return list
	}
	if differ := differences(c.Text, in.Config.String()); len(differ) > 0 {
		return append(list, result(Warning, "run this in the gateway's environment (its unit sets variables), or reload the gateway if the file is newer", "the gateway runs with other settings than this file gives here: %s", some(differ)))
	}
	if list == nil {
		list = one(OK, "", "its configuration is this one, loaded on %s", day(c.Loaded))
	}
	return list
}

// some returns the first of many names.
func some(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// differences returns the keys of the settings in which two configurations differ.
func differences(one, other string) (keys []string) {
	read := func(text string) map[string]string {
		values := map[string]string{}
		for line := range strings.Lines(text) {
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			values[key] = value
		}
		return values
	}
	a, b := read(one), read(other)
	for key, value := range a {
		if got, ok := b[key]; !ok || got != value {
			keys = append(keys, key)
		}
	}
	for key := range b {
		if _, ok := a[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
