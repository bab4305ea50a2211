package kafka

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// broker answers the requests for its versions and for the settings of a topic, in the oldest versions.
func broker(t *testing.T, fault int16, settings map[string]string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		work.Wait()
	})
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer c.Close()
				for answer(c, fault, settings) == nil {
				}
			})
		}
	})
	return l.Addr().String()
}

// answer reads a request and answers it.
func answer(c net.Conn, fault int16, settings map[string]string) error {
	head := make([]byte, 12) // size, key, version, correlation
	if _, err := io.ReadFull(c, head); err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head))-8); err != nil {
		return err
	}
	out := append([]byte{0, 0, 0, 0}, head[8:]...)
	switch kmsg.Key(binary.BigEndian.Uint16(head[4:])) {
	case kmsg.ApiVersions:
		r := kmsg.NewApiVersionsResponse()
		if binary.BigEndian.Uint16(head[6:]) > 0 {
			r.ErrorCode = kerr.UnsupportedVersion.Code
		}
		for _, key := range []kmsg.Key{kmsg.ApiVersions, kmsg.DescribeConfigs} {
			k := kmsg.NewApiVersionsResponseApiKey()
			k.ApiKey = int16(key)
			r.ApiKeys = append(r.ApiKeys, k)
		}
		out = r.AppendTo(out)
	case kmsg.DescribeConfigs:
		one := kmsg.NewDescribeConfigsResponseResource()
		one.ErrorCode, one.ResourceType, one.ResourceName = fault, kmsg.ConfigResourceTypeTopic, "usage"
		for name, value := range settings {
			s := kmsg.NewDescribeConfigsResponseResourceConfig()
			s.Name, s.Value = name, &value
			one.Configs = append(one.Configs, s)
		}
		r := kmsg.NewDescribeConfigsResponse()
		r.Resources = append(r.Resources, one)
		out = r.AppendTo(out)
	default:
		return io.EOF
	}
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	_, err := c.Write(out)
	return err
}

// TestWeaknesses reads the settings of topics that keep what they have acknowledged, and of those that may not.
func TestWeaknesses(t *testing.T) {
	for name, c := range map[string]struct {
		settings map[string]string
		want     []string
	}{
		"safe":       {map[string]string{minInSync: "2", unclean: "false"}, nil},
		"one copy":   {map[string]string{minInSync: "1", unclean: "false"}, []string{"min.insync.replicas=1"}},
		"elections":  {map[string]string{minInSync: "3", unclean: "true"}, []string{"unclean.leader.election.enable=true"}},
		"both":       {map[string]string{minInSync: "1", unclean: "true"}, []string{"min.insync.replicas=1", "unclean.leader.election.enable=true"}},
		"not a word": {map[string]string{minInSync: "many", "retention.ms": "1"}, nil},
	} {
		l, err := New(Settings{Brokers: []string{broker(t, 0, c.settings)}, Topic: "usage"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := l.Weaknesses(t.Context())
		slices.Sort(got)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		l.Close()
	}
}

// TestWeaknessesUnknown checks that it is an error if the settings cannot be read.
func TestWeaknessesUnknown(t *testing.T) {
	for _, address := range []string{"127.0.0.1:1", broker(t, kerr.TopicAuthorizationFailed.Code, nil)} {
		l, err := New(Settings{Brokers: []string{address}, Topic: "usage"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		if list, err := l.Weaknesses(ctx); err == nil {
			t.Errorf("%s: %v", address, list)
		}
		cancel()
		l.Close()
	}
}
