package wire

func (o *object) check(d *decoder) error {
	n := 0
	return d.object(func(name []byte) error {
		if n++; n > MaxMembers && len(o.fields) > 0 {
			return d.tooManyMembers()
		}
		i, known := o.byName[string(Name(name))]
		if !known {
			return d.skip()
		}
		err := o.fields[i].codec.check(d)
		if _, kept := d.kept(err); kept {
			return nil
		}
		return err
	})
}

func (c optCodec) check(d *decoder) error {
	if d.Kind() == 'n' {
		return d.skip()
	}
	return c.value.check(d)
}

func (u *union) check(d *decoder) error {
	f := u.forms[d.Kind()]
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
	if k := d.Kind(); k != 't' && k != 'f' {
		return d.misfit("true or false")
	}
	return d.skip()
}

func (numberCodec) check(d *decoder) error {
	_, err := d.number()
	return err
}

func (rawCodec) check(d *decoder) error { return d.skip() }

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
