package main

func (t *T) judge(file string) {}
