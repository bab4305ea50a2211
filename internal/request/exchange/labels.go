package exchange

import (
	"iter"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// tagsHeader is the header in which clients of every dialect send tags: team=search, feature=import.
// It is not sent to upstreams.
const tagsHeader = "Isogloss-Tags"

// maxIgnored is the number of ignored labels of a source after which the rest of it is not read.
const maxIgnored = 100

// Labels returns the labels that the rules record. ignored counts labels that are malformed or too
// many. A tag of the header wins over one of the body.
func (c *Call) Labels(rules *usage.LabelRules) (l usage.Labels, ignored int) {
	if lines := c.Client.Header[tagsHeader]; len(lines) > 0 {
		ignored += addTags(&l, tagsOf(lines), rules, false)
	}
	if c.Body == nil {
		return l, ignored
	}
	body, places := &c.Body.Index, &c.Dialect.Labels
	if places.Tags != "" && body.Has(places.Tags) {
		ignored += addTags(&l, codec.TextsOf(body, places.Tags), rules, false)
	}
	if len(rules.Keys) > 0 && places.Metadata != "" && body.Has(places.Metadata) {
		ignored += addTags(&l, codec.TextsOf(body, places.Metadata), rules, true)
	}
	if rules.Users == usage.NoUsers {
		return l, ignored
	}
	switch user := places.User(body); {
	case user == "":
	case l.SetUser(user):
		l.User = rules.Name(l.User)
	default:
		ignored++
	}
	return l, ignored
}

// addTags adds the tags that the rules record, and returns the number of those that are ignored.
func addTags(l *usage.Labels, tags iter.Seq2[string, string], rules *usage.LabelRules, metadata bool) (ignored int) {
	for key, value := range tags {
		if rules.Records(key, metadata) && !l.Add(key, value) {
			if ignored++; ignored == maxIgnored {
				break
			}
		}
	}
	return ignored
}

// tagsOf iterates over the tags of the header.
func tagsOf(lines []string) iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		for _, line := range lines {
			for tag := range strings.SplitSeq(line, ",") {
				key, value, _ := strings.Cut(tag, "=")
				if !yield(strings.TrimSpace(key), strings.TrimSpace(value)) {
					return
				}
			}
		}
	}
}
