package kafka

import (
	"context"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The settings of a topic that decide whether the brokers keep what they have acknowledged.
const (
	minInSync = "min.insync.replicas"
	unclean   = "unclean.leader.election.enable"
)

// Weaknesses returns the settings of the topic under which the brokers may lose events that they have acknowledged. It
// fails if no broker answers.
func (l *Log) Weaknesses(ctx context.Context) (list []string, err error) {
	t := kmsg.NewDescribeConfigsRequestResource()
	t.ResourceType, t.ResourceName, t.ConfigNames = kmsg.ConfigResourceTypeTopic, l.o.Topic, []string{minInSync, unclean}
	r := kmsg.NewPtrDescribeConfigsRequest()
	r.Resources = append(r.Resources, t)
	response, err := r.RequestWith(ctx, l.client)
	if err != nil {
		return nil, err
	}
	for i := range response.Resources {
		if err := kerr.ErrorForCode(response.Resources[i].ErrorCode); err != nil {
			return nil, fmt.Errorf("the settings of topic %s cannot be read: %w", l.o.Topic, err)
		}
		for _, c := range response.Resources[i].Configs {
			if c.Value == nil {
				continue
			}
			n, err := strconv.Atoi(*c.Value)
			if c.Name == minInSync && err == nil && n < 2 || c.Name == unclean && *c.Value == "true" {
				list = append(list, c.Name+"="+*c.Value)
			}
		}
	}
	return list, nil
}
