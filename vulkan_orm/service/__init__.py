"""Where statements meet a Session: publishing, claiming, settling, operating, asking."""
