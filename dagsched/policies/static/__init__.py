"""List schedulers that plan whole workflows as they arrive: HEFT, CPoP and PEFT by insertion."""
