package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/isogloss-gateway/isogloss/internal/app/draft"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover"
)

// Draft returns a commented configuration for the providers whose keys are in the
// environment and for the engines that run on this machine.
func (o Options) Draft(ctx context.Context) ([]byte, error) {
	var workers []discover.Worker
	if o.Local {
		workers = discover.LookLocally(ctx, discover.LocalOptions{})
	}
	return draft.Write(o.Env, workers)
}

// Init writes a draft to a file and checks it. It overwrites a file only by force.
func (o Options) Init(ctx context.Context, file string, force bool) (*config.Config, error) {
	text, err := o.Draft(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := config.Parse(file, text, o.Env); err != nil {
		return nil, fmt.Errorf("the configuration for what was found is not valid; please report this: %w", err)
	}
	how := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(filepath.Clean(file), how, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s exists; write another name, or --force to overwrite it", file)
	}
	if err != nil {
		return nil, err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	o.Config = file
	return o.Check()
}
