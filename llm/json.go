package llm

// Raw is JSON text that must not change: tool arguments, schemas, members that
// nobody here understands.
type Raw string

// Number is a JSON number as it was spelled: 1.10 is not 1.1 to a prompt cache.
type Number string

// Member is a member of a JSON object.
type Member struct {
	Name  string
	Value Raw
}

// Ext holds the members of a JSON object that no field stands for. They belong to
// the protocol that they were read from: its encoder writes them again, others
// report them.
type Ext struct {
	Protocol string
	Members  []Member
}

// Get returns the value of a member, empty if there is none.
func (e Ext) Get(name string) Raw {
	for _, m := range e.Members {
		if m.Name == name {
			return m.Value
		}
	}
	return ""
}
