package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/internal/base/settings"
)

// durationVar adds a flag for a duration such as 90s, 1h30m, 30d or 2y. Its current value is
// the default.
func durationVar(cmd *cobra.Command, d *time.Duration, name, usage string) {
	cmd.Flags().Var((*durationValue)(d), name, usage)
}

// durationValue is the value of a flag for a duration.
type durationValue time.Duration

// Set reads the flag's text.
func (d *durationValue) Set(text string) error {
	v, err := settings.ParseDuration(text)
	switch {
	case err != nil:
		return errors.New("write a number with its unit, such as 90s, 1h30m, 30d or 2y")
	case v < 0:
		return errors.New("write a duration that is not negative, such as 1h or 30d")
	}
	*d = durationValue(v)
	return nil
}

// String writes the value; pflag shows no default for "0".
func (d *durationValue) String() string {
	if *d == 0 {
		return "0"
	}
	return settings.FormatDuration(time.Duration(*d))
}

// Type names the value in the help.
func (*durationValue) Type() string { return "duration" }
