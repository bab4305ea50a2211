package consume

import (
	"context"
	"slices"
	"strings"
	"time"
)

// The settings of the log are read again after weakAgain, and after weakRetry if they could not be read.
const (
	weakAgain = 10 * time.Minute
	weakRetry = 30 * time.Second
)

// watchLog reports settings under which the log may lose events that it has acknowledged. It waits for the log's
// servers and stops nothing: the gateways keep their events until the store has them.
func (c *Consumer) watchLog(ctx context.Context) {
	var known []string
	told := false // that the settings cannot be read
	for ctx.Err() == nil {
		call, cancel := context.WithTimeout(ctx, weakRetry)
		list, err := c.o.Weaknesses(call)
		cancel()
		if err != nil {
			if !told && ctx.Err() == nil {
				c.o.Logger.Warn("the settings of the log of usage events are not known", "error", err)
			}
			told = true
			pause(ctx, weakRetry)
			continue
		}
		if !slices.Equal(list, known) {
			if len(list) > 0 {
				c.o.Logger.Warn("the log of usage events may lose what it has acknowledged", "settings", strings.Join(list, " "))
			} else {
				c.o.Logger.Info("the log of usage events keeps what it has acknowledged")
			}
		}
		known, told = list, false
		c.weak.Store(int64(len(list)))
		pause(ctx, weakAgain)
	}
}
