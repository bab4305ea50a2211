package openaichat

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// DefaultMaxBytes is how much an [Aggregator] gathers if it is not told
// otherwise.
const DefaultMaxBytes = 64 << 20

// What an [Aggregator] and [Explode] may find wrong with an answer as a whole.
var (
	// ErrIncomplete is the fate of a stream that gave no proof of its end.
	ErrIncomplete = errors.New("openaichat: the stream ended without a finish reason and without [DONE]")

	// ErrNoChoices is an answer that answers nothing.
	ErrNoChoices = errors.New("openaichat: the answer has no choices")

	// ErrTooLarge is an answer that is larger than may be gathered.
	ErrTooLarge = errors.New("openaichat: the streamed answer is larger than the limit for gathering it")
)

// Aggregator makes one whole answer of a streamed one, as the upstream would have
// given it: nothing is translated, members that are not known are kept (the last
// value wins), and what servers do to tool calls is set right. The zero value is
// ready for use.
type Aggregator struct {
	// MaxBytes bounds what is gathered; 0 means DefaultMaxBytes. Chunks that
	// bring lists or members without a field count with their whole length.
	MaxBytes int

	id          string
	created     wire.Number
	model       string
	usage       wire.Opt[Usage]
	tier        wire.Opt[ServiceTier]
	fingerprint wire.Opt[string]
	moderation  wire.Opt[ModerationResult]
	metadata    wire.Opt[wire.Object]
	extras      extras
	choices     map[int64]*gathered
	chunk       Chunk // the last one; kept to spare an allocation per chunk
	size        int
	done        bool
	err         error // the first error; an answer with a hole is no answer
}

// Add takes the data of one event, [DONE] excepted. An error object inside the
// stream comes back as an *llm.Error. After an error there is no answer.
func (a *Aggregator) Add(data []byte) error {
	if a.err == nil {
		a.err = a.add(data)
	}
	return a.err
}

// Done says that the stream has ended with [DONE].
func (a *Aggregator) Done() { a.done = true }

// Response returns the whole answer.
func (a *Aggregator) Response() (*Response, error) {
	if a.err != nil {
		return nil, a.err
	}
	if len(a.choices) == 0 {
		if a.done {
			return nil, ErrNoChoices
		}
		return nil, ErrIncomplete
	}
	choices := make([]Choice, 0, len(a.choices))
	for _, index := range slices.Sorted(maps.Keys(a.choices)) {
		g := a.choices[index]
		if g.reason == "" && !a.done {
			return nil, fmt.Errorf("choice %d: %w", index, ErrIncomplete)
		}
		choices = append(choices, g.choice(index, a.id))
	}
	created := a.created
	if created == "" {
		created = wire.Int(0)
	}
	return &Response{
		ID:                wire.Some(a.id),
		Object:            wire.Some(ObjectCompletion),
		Created:           wire.Some(created),
		Model:             wire.Some(a.model),
		Choices:           wire.Some(choices),
		Usage:             a.usage,
		ServiceTier:       a.tier,
		SystemFingerprint: a.fingerprint,
		Moderation:        a.moderation,
		Metadata:          a.metadata,
		Extra:             a.extras.extra(),
	}, nil
}

// Body returns the whole answer as JSON.
func (a *Aggregator) Body() ([]byte, error) {
	r, err := a.Response()
	if err != nil {
		return nil, err
	}
	return responseShape.Marshal(r)
}

func (a *Aggregator) add(data []byte) error {
	if a.done {
		return errors.New("openaichat: a chunk came after [DONE]")
	}
	c := &a.chunk
	if err := chunkShape.UnmarshalLenient(data, c); err != nil {
		return fmt.Errorf("openaichat: chunk: %w", err)
	}
	if err := c.failure(); err != nil {
		return err
	}
	a.addIdentity(c)
	a.usage = later(a.usage, c.Usage)
	if a.usage.IsNull() {
		a.usage = wire.Opt[Usage]{} // null is what a stream says before the count is known
	}
	a.tier = later(a.tier, c.ServiceTier)
	a.fingerprint = later(a.fingerprint, c.SystemFingerprint)
	a.moderation = later(a.moderation, c.Moderation)
	a.metadata = later(a.metadata, c.Metadata)
	a.size += a.extras.merge(c.Extra, "choices")
	for i := range c.Choices.Value() {
		if err := a.addChoice(&c.Choices.Value()[i], i, len(data)); err != nil {
			return err
		}
	}
	limit := a.MaxBytes
	if limit == 0 {
		limit = DefaultMaxBytes
	}
	if a.size > limit {
		return ErrTooLarge
	}
	return nil
}

// addIdentity takes id, created and model from the first chunk that has them;
// Azure's first chunk has empty ones, CST-24.
func (a *Aggregator) addIdentity(c *Chunk) {
	if a.id == "" {
		a.id = c.ID.Value()
	}
	if a.model == "" {
		a.model = c.Model.Value()
	}
	if n, ok := c.Created.Get(); ok && a.created == "" && n != "0" {
		a.created = n
	}
}

// addChoice adds to the choice that a chunk names, or, where it names none, to
// the one at that position.
func (a *Aggregator) addChoice(c *ChunkChoice, position, length int) error {
	index := int64(position)
	if n, ok := c.Index.Get(); ok {
		var err error
		if index, err = n.Int64(); err != nil {
			return fmt.Errorf("openaichat: choice index: %w", err)
		}
	}
	g := a.choices[index]
	if g == nil {
		if a.choices == nil {
			a.choices = make(map[int64]*gathered)
		}
		g = &gathered{}
		a.choices[index] = g
		a.size += overhead
	}
	a.size += g.add(c, length)
	return nil
}

// failure returns the error object that a chunk holds.
func (c *Chunk) failure() error {
	v, ok := c.Error.Get()
	if !ok || v.Text.IsSet() && v.Text.Value().IsEmpty() {
		return nil
	}
	raw, err := errorValueShape.Marshal(&v)
	if err != nil {
		return err
	}
	return decodeError(raw)
}

// later is the rule for a member that comes again: the last value wins, and null
// says nothing about a value that came before.
func later[T any](old, next wire.Opt[T]) wire.Opt[T] {
	if next.IsSet() || next.IsNull() && old.IsAbsent() {
		return next
	}
	return old
}

// overhead is what a choice or a call counts before it has any text, so that
// a flood of empty ones meets the limit too.
const overhead = 256

// extras gathers members without a field. A string in one of them may or may not
// be a fragment, so none are joined.
type extras struct {
	members wire.Object
	at      map[string]int
}

// merge returns by how many bytes the gathered members have grown. The member
// called except is of use to a stream only: it is here because it could not be
// read, and a whole answer has no place for it.
func (e *extras) merge(from wire.Extra, except string) int {
	grown := 0
	for _, m := range from.All() {
		i, seen := e.at[m.Name]
		switch {
		case m.Name == except && except != "":
		case !seen:
			if e.at == nil {
				e.at = make(map[string]int)
			}
			e.at[m.Name] = len(e.members)
			e.members = append(e.members, m)
			grown += len(m.Name) + len(m.Value)
		case m.Value.Kind() != 'n':
			grown += len(m.Value) - len(e.members[i].Value)
			e.members[i] = m
		}
	}
	return grown
}

func (e *extras) extra() wire.Extra { return wire.NewExtra(e.members) }
