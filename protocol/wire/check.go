package wire

import "errors"

func (o *object) check(d *decoder) error {
	if d.PeekKind() != '{' {
		return d.misfit("an object")
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for n := 1; d.PeekKind() != '}'; n++ {
		if n > MaxMembers && len(o.fields) > 0 {
			return d.tooManyMembers()
		}
		name, err := d.ReadValue()
		if err != nil {
			return err
		}
		if i, known := o.lookup(name); known {
			err = o.fields[i].codec.check(d)
			if _, ok := errors.AsType[*misfit](err); ok && d.lenient {
				err = nil
			}
		} else {
			err = d.SkipValue()
		}
		if err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

func (c optCodec) check(d *decoder) error {
	if d.PeekKind() == 'n' {
		return d.SkipValue()
	}
	return c.value.check(d)
}

func (u *union) check(d *decoder) error {
	f := u.forms[d.PeekKind()]
	if f == nil {
		return d.misfit(u.want)
	}
	return f.codec.check(d)
}

func (stringCodec) check(d *decoder) error {
	_, err := d.literal()
	return err
}

func (textCodec) check(d *decoder) error {
	_, err := d.literal()
	return err
}

func (boolCodec) check(d *decoder) error {
	if k := d.PeekKind(); k != 't' && k != 'f' {
		return d.misfit("true or false")
	}
	return d.SkipValue()
}

func (numberCodec) check(d *decoder) error {
	_, err := d.number()
	return err
}

func (rawCodec) check(d *decoder) error { return d.SkipValue() }

func (membersCodec) check(d *decoder) error { return (&object{}).check(d) }

func (c stringsCodec) check(d *decoder) error {
	_, err := d.array(func(int) error {
		if err := d.count(); err != nil {
			return err
		}
		return c.elem.check(d)
	})
	return err
}
